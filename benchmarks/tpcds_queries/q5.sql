-- What are the sales, returns and profit of each store, catalog page and web site?
WITH place AS (
  SELECT 'store' AS channel, s_store_sk AS place_sk, s_store_id AS place_id FROM store
  UNION ALL
  SELECT 'catalog', cp_catalog_page_sk, cp_catalog_page_id FROM catalog_page
  UNION ALL
  SELECT 'web', web_site_sk, web_site_id FROM web_site
),
booking AS (
  SELECT
    'store' AS channel, ss_store_sk AS place_sk, ss_sold_date_sk AS day_sk,
    ss_ext_sales_price AS sale, CAST(0 AS DECIMAL(7, 2)) AS refund, ss_net_profit AS profit
  FROM store_sales
  UNION ALL
  SELECT 'store', sr_store_sk, sr_returned_date_sk, 0, sr_return_amt, -sr_net_loss
  FROM store_returns
  UNION ALL
  SELECT 'catalog', cs_catalog_page_sk, cs_sold_date_sk, cs_ext_sales_price, 0, cs_net_profit
  FROM catalog_sales
  UNION ALL
  SELECT 'catalog', cr_catalog_page_sk, cr_returned_date_sk, 0, cr_return_amount, -cr_net_loss
  FROM catalog_returns
  UNION ALL
  SELECT 'web', ws_web_site_sk, ws_sold_date_sk, ws_ext_sales_price, 0, ws_net_profit
  FROM web_sales
  UNION ALL
  SELECT 'web', ws_web_site_sk, wr_returned_date_sk, 0, wr_return_amt, -wr_net_loss
  FROM web_returns
  LEFT JOIN web_sales ON ws_order_number = wr_order_number AND ws_item_sk = wr_item_sk
)
SELECT
  booking.channel, place_id, sum(sale) AS sales, sum(refund) AS returns, sum(profit) AS profit
FROM booking
JOIN place ON place.channel = booking.channel AND place.place_sk = booking.place_sk
JOIN date_dim ON d_date_sk = day_sk
WHERE d_date BETWEEN DATE'2000-08-01' AND DATE'2000-10-31'
GROUP BY ROLLUP (booking.channel, place_id)
ORDER BY booking.channel, place_id, grouping_id()
LIMIT 100
