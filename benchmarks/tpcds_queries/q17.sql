-- How do quantities vary for items sold, returned and bought again by catalog, by state?
SELECT
  i_item_id, i_item_desc, s_state,
  count(ss_quantity) AS sales,
  round(avg(ss_quantity), 2) AS mean_sold,
  round(stddev(ss_quantity), 2) AS deviation_sold,
  count(sr_return_quantity) AS returns,
  round(avg(sr_return_quantity), 2) AS mean_returned,
  round(stddev(sr_return_quantity), 2) AS deviation_returned,
  count(cs_quantity) AS orders,
  round(avg(cs_quantity), 2) AS mean_ordered,
  round(stddev(cs_quantity), 2) AS deviation_ordered
FROM store_sales
JOIN store_returns
  ON sr_ticket_number = ss_ticket_number
  AND sr_item_sk = ss_item_sk
  AND sr_customer_sk = ss_customer_sk
JOIN catalog_sales ON cs_item_sk = sr_item_sk AND cs_bill_customer_sk = sr_customer_sk
JOIN date_dim AS bought ON bought.d_date_sk = ss_sold_date_sk
JOIN date_dim AS returned ON returned.d_date_sk = sr_returned_date_sk
JOIN date_dim AS ordered ON ordered.d_date_sk = cs_sold_date_sk
JOIN store ON s_store_sk = ss_store_sk
JOIN item ON i_item_sk = ss_item_sk
WHERE bought.d_quarter_name BETWEEN '1998Q1' AND '2002Q2'
  AND returned.d_quarter_name BETWEEN '1998Q1' AND '2002Q4'
  AND ordered.d_quarter_name BETWEEN '1998Q1' AND '2002Q4'
GROUP BY i_item_id, i_item_desc, s_state
ORDER BY i_item_id, i_item_desc, s_state
LIMIT 100
