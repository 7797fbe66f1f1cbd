-- Which items had too little stock in the week of a catalog order, with and without a promotion?
SELECT
  i_item_desc,
  w_warehouse_name,
  ordered.d_week_seq,
  count_if(p_promo_sk IS NULL) AS without_promotion,
  count_if(p_promo_sk IS NOT NULL) AS with_promotion,
  count(*) AS total
FROM catalog_sales
JOIN inventory ON inv_item_sk = cs_item_sk AND inv_quantity_on_hand < cs_quantity
JOIN warehouse ON w_warehouse_sk = inv_warehouse_sk
JOIN item ON i_item_sk = cs_item_sk
JOIN customer_demographics ON cd_demo_sk = cs_bill_cdemo_sk
JOIN household_demographics ON hd_demo_sk = cs_bill_hdemo_sk
JOIN date_dim AS ordered ON ordered.d_date_sk = cs_sold_date_sk
JOIN date_dim AS counted
  ON counted.d_date_sk = inv_date_sk AND counted.d_week_seq = ordered.d_week_seq
JOIN date_dim AS shipped ON shipped.d_date_sk = cs_ship_date_sk
LEFT JOIN promotion ON p_promo_sk = cs_promo_sk
LEFT JOIN catalog_returns ON cr_item_sk = cs_item_sk AND cr_order_number = cs_order_number
WHERE ordered.d_year BETWEEN 1999 AND 2001
  AND shipped.d_date > date_add(ordered.d_date, 5)
  AND hd_buy_potential IN ('>10000', '5001-10000', '1001-5000')
  AND cd_marital_status IN ('D', 'M', 'S')
GROUP BY i_item_desc, w_warehouse_name, ordered.d_week_seq
ORDER BY total DESC, i_item_desc, w_warehouse_name, ordered.d_week_seq
LIMIT 100
